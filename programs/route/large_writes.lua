-- Sends large writes to a target of their own. Small writes stay on the object's `home`, the target that placement
-- chose.
--
-- Use it for a pool with short writes whose latency matters, and long writes that would delay them on the same disk.
-- Set LARGE and the target. A small write into a range of a large one is stored on `home`, so a read over both parts
-- is split and its results joined.
--
-- Do not use it if small and large writes overwrite each other all the time, because the bytes then move with each
-- write. This program gives no latency promise; `nacre slo` decides whose request is next on a target.
--
--   * w data/* -> program large_writes follow

local LARGE = 256 * 1024
local AWAY = "target storage.1"

destinations = { "home", AWAY }

function route(io)
  return if io.length >= LARGE then AWAY else "home"
end
