-- Moves nothing.
--
-- For: maintenance, and as the baseline of an experiment. To pause balancing, activate this policy, and roll back
-- later.
-- Not for: anything else.
-- Source: "No Balancing" in Malacology (EuroSys'17).

function when()
  return false
end
