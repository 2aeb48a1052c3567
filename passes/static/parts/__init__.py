"""Helpers of the static passes: attention over fixed states, the channel layout, and cutting a model into parts."""
