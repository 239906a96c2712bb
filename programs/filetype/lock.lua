-- A lock service: named locks that a client holds for a limited time, with fencing tokens.
--
-- A resource of this type is a namespace of locks, such as /locks/backup. A lock belongs to a client, which
-- renews it before it expires. Each grant of a lock has a token greater than all earlier ones. A client can send
-- its token with each write to a store. If the store refuses tokens less than the greatest it has seen, it is
-- safe from a client that was paused for longer than its lease. (Burrows, The Chubby lock service, OSDI 2006:
-- sequencers.)
--
--   acquire {name, seconds}   {token}; `conflict` while another client holds the lock
--   renew {name, seconds}     {token}; `not found` if the client no longer holds the lock
--   release {name}            true if the client held the lock
--   holder {name}             {client, token, seconds} | nil
--
-- Times are those of the authority's clock. After a take-over they are those of another node's clock, so leave a
-- margin.

local MAX_SECONDS = 3600

local function asked(input)
  if type(input) ~= "table" or type(input.name) ~= "string" or #input.name == 0 or #input.name > 256 then
    filetype.invalid("name a lock: {\"name\": \"…\"}, of at most 256 bytes")
  end
  return input.name
end

local function lease(input, call)
  local seconds = input.seconds
  if type(seconds) ~= "number" or not (seconds > 0 and seconds <= MAX_SECONDS) then
    filetype.invalid("say for how many seconds, at most " .. MAX_SECONDS)
  end
  return call.now + seconds
end

-- The lock, if anybody holds it now.
local function held(state, name, call)
  local lock = state.locks[name]
  if lock and lock.expires > call.now then
    return lock
  end
  return nil
end

function init()
  return { last_token = 0, locks = {} }
end

filetype.write("acquire", function(state, input, call)
  local name = asked(input)
  local expires = lease(input, call)
  local lock = held(state, name, call)
  if lock and lock.client ~= call.client then
    filetype.conflict(string.format("%s holds %s for %.1f s more", lock.client, name, lock.expires - call.now))
  end
  -- Locks that have expired make room.
  for other, lock in pairs(state.locks) do
    if lock.expires <= call.now then
      state.locks[other] = nil
    end
  end
  state.last_token += 1
  state.locks[name] = { client = call.client, token = state.last_token, expires = expires }
  return { token = state.last_token }
end)

filetype.write("renew", function(state, input, call)
  local name = asked(input)
  local expires = lease(input, call)
  local lock = held(state, name, call)
  if not lock or lock.client ~= call.client then
    filetype.not_found(call.client .. " does not hold " .. name)
  end
  lock.expires = expires
  return { token = lock.token }
end)

filetype.write("release", function(state, input, call)
  local name = asked(input)
  local lock = held(state, name, call)
  if not lock or lock.client ~= call.client then
    return false
  end
  state.locks[name] = nil
  return true
end)

filetype.read("holder", function(state, input, call)
  local lock = held(state, asked(input), call)
  if not lock then
    return nil
  end
  return { client = lock.client, token = lock.token, seconds = lock.expires - call.now }
end)
