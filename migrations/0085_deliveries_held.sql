-- Mails that are held until an owner decides: few, so that they can be counted whatever the size of the table.
CREATE INDEX deliveries_held ON deliveries (state_at) WHERE state = 'held';
