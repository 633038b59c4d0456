"""The built-in tools that really run, with a folder as their world.

apply_patch(root, patch)   changes files by a unified diff, all of them or none
"""
