--!mantle
-- A rank (metadata server) with load sends half of it to the next rank, as soon as the next rank has none.
--
-- For: Ceph's own Mantle, and nacre. Each runs this policy unchanged.
-- Not for: a load that one rank can serve, see `../greedy_spill.lua`.
-- Source: Mantle (SC'15), listing 1, in the dialect of Ceph 12 and later: ranks are counted from 0, and each has
-- a target.

local function load_of(rank)
  return mds[rank]["all.meta_load"]
end

local targets = {}
local ranks = 0
for rank in pairs(mds) do
  targets[rank] = 0
  ranks = ranks + 1
end

local next_rank = whoami + 1
if next_rank < ranks and load_of(whoami) > 0.01 and load_of(next_rank) < 0.01 then
  targets[next_rank] = load_of(whoami) / 2
  BAL_LOG(2, "rank ", whoami, " sends ", targets[next_rank], " to rank ", next_rank)
end

return targets
