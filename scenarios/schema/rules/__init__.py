"""Rules about settings that do not go together, by what they are about; `schema/compatibility.py` reads them all."""
