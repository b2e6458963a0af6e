SELECT state, generation
  FROM write_admission
