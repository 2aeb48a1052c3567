"""How a call is written between its markers: one file for each notation, with its grammar and its reading."""
