"""From drafts to tasks: probing, fingerprints, near-duplicates, decontamination."""
