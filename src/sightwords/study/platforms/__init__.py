"""Exchange of a study with other platforms.

seats.py         sittings with random keys, made in advance; takes answers back by key
export.py        writes the files of a platform and the photos
mturk.py         Mechanical Turk: files out, answers in
label_studio.py  Label Studio: files out, answers in
votes_file.py    votes collected anywhere else: CSV or JSONL
"""
