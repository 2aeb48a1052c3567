"""How a bundle is shown: the HTML report and the tables at the terminal."""
