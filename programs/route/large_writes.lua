-- Sends large writes to a target of their own, and keeps small ones home.
--
-- For one pool with two kinds of work: short writes whose latency matters, and long ones that would delay them on the same
-- disk. Set LARGE and the target. A small write within a large one lies at home, so a read over both is split and joined.
--
-- Not if small and large writes overwrite each other all the time: the bytes change their place with each. Not in place of
-- a promise: `nacre slo` says whose request is next on one target.
--
--   * w data/* -> program large_writes follow

local LARGE = 256 * 1024
local AWAY = "target storage.1"

destinations = { "home", AWAY }

function route(io)
  return if io.length >= LARGE then AWAY else "home"
end
