-- Every append and claim holds a row of this table FOR SHARE, and with it the table in a mode that
-- this one conflicts with. Sharers of a row let each other in past whoever waits for it; the queue
-- for a table is fair, so that this wait ends with the transactions that are under way now.
LOCK TABLE outbox_publication_epoch IN EXCLUSIVE MODE
