"""What tests share: waiting, named cases, and small real servers that stand in for foreign systems."""
