-- expect: exhausted
-- The script catches every abort and goes on.
local function spin() while true do end end
function h() while true do pcall(spin) end end
objclass.register(h)
