-- Priority: tenants get the capability in the order of their priorities.
--
-- A client gives the capability up at once to a tenant of greater priority, and to any other tenant after HOLD
-- seconds. Among equal priorities the tenant that has waited longest is next. Write your tenants into PRIORITY
-- and put the program under a name of your own.
--
-- A tenant of low priority waits as long as others keep asking; `fair` avoids that.

local PRIORITY = { interactive = 10, batch = 1 }
local OTHERS = 5
local HOLD = 0.25

local function priority(who)
  return PRIORITY[who.tenant] or OTHERS
end

function grant(ask)
  return { hold = HOLD }
end

function keep(holding, ask)
  if priority(ask) > priority(holding) then
    return 0
  end
  return math.max(HOLD - holding.held, 0)
end

function turn(waiting)
  local first = 1
  for place, ask in waiting do
    if priority(ask) > priority(waiting[first]) then
      first = place
    end
  end
  return first
end
