"""Without a tool that reads artifacts no variant prints the path of one, and each still states what it left out."""

from __future__ import annotations

from envelopes.families import FAMILIES
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.storage.sinks import MemorySink
from envelopes.variants import variants_for
from envelopes.variants.outcome_json import VARIANT

WITHHELD = RenderPolicy(read_tool=None)


def test_no_variant_prints_a_path_that_the_model_cannot_open() -> None:
    printed: set[str] = set()
    for family in FAMILIES:
        for name, sample in family.gallery.items():
            canonical = project(sample, family, family.projection, MemorySink()).canonical
            if not canonical.artifacts or name.startswith("ReadArtifact/"):
                continue
            for variant in variants_for(family):
                text = render(canonical, family, WITHHELD, variant=variant).text
                if any(artifact.path in text for artifact in canonical.artifacts):
                    printed.add(f"{name} as {variant.id}")
                elif "ReadArtifact" in text:
                    printed.add(f"{name} as {variant.id} names the tool")
    assert not printed


def test_the_same_variants_print_the_paths_for_a_model_with_the_tool() -> None:
    family = next(family for family in FAMILIES if family.name == "command")
    canonical = project(family.gallery["ExecCommand/large"], family, family.projection, MemorySink()).canonical
    (artifact,) = canonical.artifacts
    for variant in variants_for(family):
        assert artifact.path in render(canonical, family, RenderPolicy(), variant=variant).text
    hint = render(canonical, family, WITHHELD, variant=VARIANT).text
    assert '"hint": "The output is too large to show here."' in hint
