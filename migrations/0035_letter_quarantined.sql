-- A letter that ended several engines is quarantined, in the kind of its notice too.
UPDATE notices SET kind = 'letter_quarantined' WHERE kind = 'letter_set_aside';
