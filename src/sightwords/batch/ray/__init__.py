"""The same batch on many machines, by Ray: the same captions, however many machines share the work.

units      shards, or stretches of a list, cut into slices
machines   what runs on each machine: read a unit, caption a slice, finish a unit
parts      what is done so far: one file per slice
store      a shared folder or an object store
keys       no key twice in the whole batch
session    Ray itself
run        all of it in order
"""
