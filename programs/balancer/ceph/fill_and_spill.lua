--!mantle
-- A rank (metadata server) keeps its load until clients send more requests than it should serve. Then it sends a
-- quarter of its load to the next rank, if that rank is idle.
--
-- For: a load that should stay on as few ranks as can serve it, because locality saves forwarded requests.
-- Not for: loads that come and go within a few ticks.
-- Source: Mantle (SC'15), listing 3, in the dialect of Ceph 12 and later. In that dialect a policy cannot read
-- the CPU use of its rank and keeps no state. So this policy uses requests a second instead of CPU use. Instead
-- of waiting some ticks, as the listing does, it checks that the next rank is idle.

-- A rank with more requests a second than this is overloaded. To set it, measure how many requests a rank serves
-- well.
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
