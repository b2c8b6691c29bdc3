"""Worlds held against published measurements: small fixed models as rulers, tables, pictures and the command."""
