"""A stream that is longer than what nodes keep of it: what they hold, in memory and on the disk, as it goes on."""
