-- The order of Shaobo Guan's thesis "Supporting Tail Latency SLOs in Ceph" (2020, appendix A), with weights for
-- tenants without a promise. It is the order that nacre has without a program.
--
-- First come tenants within their token buckets, by priority. Among equal priorities, first comes the request
-- that has been within the buckets longest. Then tenants outside their buckets take turns. Beside these, tenants
-- without a promise share by weight.
--
-- Read it to write an order of your own. If you want this order, set no program: nacre's built-in order is
-- the same, and decides a hundred times as fast.

local function is_before(a, b)
  if a.within ~= b.within then
    return a.within
  end
  if a.within then
    if a.priority ~= b.priority then
      return a.priority < b.priority
    end
    if a.ready ~= b.ready then
      return a.ready > b.ready
    end
    return a.number < b.number
  end
  local a_is_promised, b_is_promised = a.priority ~= nil, b.priority ~= nil
  if a_is_promised ~= b_is_promised then
    -- Two groups share what is left over.
    if a.group ~= b.group then
      return a.group < b.group
    end
    return a_is_promised
  end
  if not a_is_promised and a.left_over ~= b.left_over then
    return a.left_over < b.left_over
  end
  return a.turn < b.turn
end

function choose(waiting)
  local first = 1
  for place, entry in waiting do
    if is_before(entry, waiting[first]) then
      first = place
    end
  end
  return first
end
