"""The stages of the policy, one file each: a stage annotates and narrows decisions, it never acts."""
