-- Spreads busy sequencers over the ranks, a few at a time, and moves nothing else.
--
-- For: several logs with many clients each, if their sequencers began on one rank.
-- Not for: a single sequencer that overloads its node, because another node would be just as busy. Not for
-- directories.
-- Source: Malacology (EuroSys'17), section "Load balancing ZLog sequencers with Mantle": migration units and
-- back-off.
--
-- The policy does not move sequencers back and forth. Only the busiest rank sends. It moves a sequencer only if
-- the receiving rank stays clearly less busy than the sender was. So the greatest load falls with every move.
-- Then the policy waits some ticks.

-- What may move.
local KIND = "sequencer"
-- "full" sends all that is above the average, "half" half of it.
local MIGRATION = "full"
-- Ticks to wait after each migration, until the counters show what it did.
local BACK_OFF_TICKS = 3
-- How much less busy the receiving rank must be after a move than the sender was before it: 0.1 means 10 %.
local MARGIN = 0.1
-- Requests a second below which a unit is not worth moving.
local BUSY = 1
-- Units that one decision moves at the most: each is held for some milliseconds.
local MAX_MOVES = 32
-- If a node has the label `sequencers = "yes"`, units move only to such nodes.
local LABEL = "sequencers"

metaload = "IRD + IWR"

-- A capacity of 0 would make every load infinite.
local function capacity_of(rank)
  return math.max(MDSs[rank].capacity, 0.001)
end

-- Twice the capacity counts as half the load.
function mdsload(i)
  return MDSs[i].auth / capacity_of(i)
end

local is_labelled = false

local function takes_sequencers(rank)
  return not is_labelled or MDSs[rank].labels[LABEL] == "yes"
end

-- The planned moves: for each rank the names of the units.
local plan = {}

-- The rank that would be least busy with one more unit, and how busy it would be.
local function best_taker(extra, load)
  local taker, least
  for rank = 1, #MDSs do
    if rank ~= whoami and takes_sequencers(rank) then
      local busy = MDSs[rank].load + ((extra[rank] or 0) + load) / capacity_of(rank)
      if not least or busy < least then
        taker, least = rank, busy
      end
    end
  end
  return taker, least
end

local function is_busier(a, b)
  if a.load ~= b.load then return a.load > b.load end
  return a.name < b.name
end

-- The busiest units, the busiest first: more than these cannot move.
local function busiest()
  local found = {}
  for _, unit in ipairs(units) do
    local is_one = unit.kind == KIND and unit.load >= BUSY
    if is_one and (#found < MAX_MOVES or is_busier(unit, found[MAX_MOVES])) then
      found[math.min(#found + 1, MAX_MOVES)] = unit
      local at = #found
      while at > 1 and is_busier(found[at], found[at - 1]) do
        found[at], found[at - 1] = found[at - 1], found[at]
        at = at - 1
      end
    end
  end
  return found
end

local function make_plan()
  local busy = busiest()
  local capacity = capacity_of(whoami)
  local left = authmetaload
  local allowance = (MDSs[whoami].load - total / #MDSs) * capacity
  if MIGRATION == "half" then allowance = allowance / 2 end
  local extra = {}
  for _, unit in ipairs(busy) do
    local taker, taken = best_taker(extra, unit.load)
    -- The last unit may exceed the allowance by up to half of its load, so that the sum comes closest to the
    -- allowance.
    if taker and taken < (1 - MARGIN) * left / capacity and unit.load / 2 <= allowance then
      extra[taker] = (extra[taker] or 0) + unit.load
      plan[taker] = plan[taker] or {}
      plan[taker][unit.name] = true
      left = left - unit.load
      allowance = allowance - unit.load
    end
  end
  return extra
end

function when()
  local wait = RDstate() or 0
  if wait > 0 then
    WRstate(wait - 1)
    return false
  end
  for rank = 1, #MDSs do
    if MDSs[rank].labels[LABEL] == "yes" then is_labelled = true end
    -- Of equally busy ranks the first one sends.
    local is_busier = MDSs[rank].load > MDSs[whoami].load
    local is_first = MDSs[rank].load == MDSs[whoami].load and rank < whoami
    if is_busier or is_first then return false end
  end
  return MDSs[whoami].load > (1 + MARGIN) * total / #MDSs
end

function where()
  local extra = make_plan()
  for rank, load in pairs(extra) do
    targets[rank] = load
    WRstate(BACK_OFF_TICKS)
  end
end

howmuch = {
  function(candidates, _, rank)
    local chosen = {}
    for at, unit in ipairs(candidates) do
      if plan[rank] and plan[rank][unit.name] then chosen[#chosen + 1] = at end
    end
    return chosen
  end,
}
