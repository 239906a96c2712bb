-- A rank (metadata server) with load sends half of it to an idle rank. It begins its search in the middle of the
-- ranks with greater numbers, so that the load ends up even.
--
-- For: many clients that create files in one directory, if the number of ranks is a power of two.
-- Not for: a load that fewer ranks can serve. Mantle's authors measured up to 40 % less throughput on four ranks than
-- on one.
-- Source: Mantle (SC'15), listing 2, with three corrections. The listing compares the table `MDSs[t]` instead of the
-- load in it. It skips idle ranks instead of busy ones. If the number of ranks with greater numbers is odd, its middle
-- is no whole number.

metaload = "IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  local t = math.floor((#MDSs-whoami+1)/2) + whoami
  if t > #MDSs then t = whoami end
  while t ~= whoami and MDSs[t]["load"] >= .01 do t = t - 1 end
  if t ~= whoami and
     MDSs[whoami]["load"] > .01 and
     MDSs[t]["load"] < .01 then
]]

where = [[targets[t] = MDSs[whoami]["load"]/2]]

howmuch = { "half" }
