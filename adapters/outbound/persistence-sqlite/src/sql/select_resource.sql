-- The random id that the first migration wrote.
SELECT resource_id FROM transaction_resource
