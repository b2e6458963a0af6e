-- Lets this transaction delete what the guards of the tables find resolved.
SELECT set_config('countersign.reaper', 'on', true)
