"""A Diagnosis for people: terminal, HTML, Markdown. Nothing here measures or concludes; it words, cuts and escapes."""
