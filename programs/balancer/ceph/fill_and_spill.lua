--!mantle
-- A rank keeps its load until clients ask more of it than it should serve. Then it sends a quarter to the next rank, if
-- that one is idle.
--
-- For: a load that should stay on as few ranks as can serve it, since locality saves forwarded requests.
-- Not for: loads that come and go within a few ticks.
-- Source: Mantle (SC'15), listing 3, in the dialect of Ceph 12 and later. A policy there knows no CPU use of its rank, and
-- keeps no state. So requests a second stand for CPU use, and an idle neighbour for the ticks that the listing waits.

-- Requests a second from which on a rank is overloaded. Measure how many it serves for as many clients as it serves well.
local request_limit = 1000
-- The part of its load that a rank sends: 1/4 was best in Mantle, 1/10 too little.
local divisor = 4

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
if next_rank < ranks and mds[whoami]["req_rate"] > request_limit and load_of(next_rank) < 0.01 then
  targets[next_rank] = load_of(whoami) / divisor
  BAL_LOG(2, "rank ", whoami, " sends ", targets[next_rank], " to rank ", next_rank)
end

return targets
