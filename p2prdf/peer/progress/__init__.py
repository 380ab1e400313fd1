"""How far things are: low watermarks, watermarks of streams, ends of streams, backfill and retention."""
