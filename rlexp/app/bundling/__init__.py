"""What a bundle of a study holds besides its records: versions, recipes and metadata."""
