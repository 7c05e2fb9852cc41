"""The names and cities that the synthetic tasks use; each is one token.

No entry may be a substring of another (checked by `tokenizer.py`), so that an
added-token matcher gives the same split whatever rule it breaks ties with.
"""

NAMES = """
Aaron Abigail Adrian Agatha Aisha Albert Alfredo Alicia Amara Amelia Amina
Anders Anita Antonio Arjun Astrid Aurora Axel Barbara Beatriz Benjamin Bertha
Bianca Bjorn Boyd Brandon Brenda Bridget Bruno Calvin Camila Carlos Carmen
Cedric Celeste Chandra Chloe Clara Clifford Clyde Connor Cyrus Daisy Damian
Daphne Deborah Declan Deepak Delia Dexter Diego Dmitri Dolores Dorothy Douglas
Duncan Dylan Eduardo Edwin Eileen Elodie Elsa Emilio Enrique Erika Esther
Ethan Eugene Fatima Felipe Fiona Floyd Gareth Gemma Gerald Gideon Gilbert
Gloria Gregory Greta Guido Gustavo Hannah Harold Harriet Hassan Hazel Hector
Heidi Hiroshi Howard Hubert Imogen Ingrid Isaac Isadora Ivana Jasmine Javier
Jennifer Jerome Joaquin Jocelyn Jorge Joyce Judith Julio Kaito Karim Keiko
Kelvin Kenji Kiran Klara Kristof Kurt Lakshmi Lamar Lars Leandro Leilani
Lennart Leroy Lorenzo Lucia Luther Magnus Malik Marcus Margot Marisol Marlene
Matteo Maureen Melissa Mercedes Meredith Miguel Mildred Milton Miriam Mohammed
Monica Morgan Nadia Naomi Nathan Nigel Nkechi Noelle Norman Octavio Olivia
Omar Oscar Otto Pablo Paloma Pamela Patricia Percy Phoebe Priya Quentin Rachel
Rafael Ramona Rashid Rebecca Reginald Renata Ricardo Rosalind Roxanne Rupert
Samira Santiago Selma Sheila Silvia Simone Soren Stanley Stefan Sunita Sven
Sybil Tamara Tariq Theodore Thelma Tobias
""".split()

CITIES = """
Accra Amsterdam Ankara Athens Auckland Baghdad Bangkok Barcelona Beijing
Belgrade Bogota Boston Brisbane Brussels Budapest Cairo Caracas Casablanca
Chicago Copenhagen Dakar Damascus Delhi Denver Dublin Florence Geneva Glasgow
Hamburg Hanoi Havana Helsinki Houston Istanbul Jakarta Kabul Karachi Kinshasa
Lagos Lahore Lima Lisbon Madrid Manila Melbourne Memphis Milan Montreal Mumbai
Nairobi Osaka Oslo Ottawa Prague Quito Santos Seattle Seoul Singapore Sydney
Tehran Tokyo Toronto Zurich
""".split()
