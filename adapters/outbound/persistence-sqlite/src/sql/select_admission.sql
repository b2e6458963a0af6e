-- The write admission.
SELECT state, generation FROM write_admission
