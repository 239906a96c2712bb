-- expect: exhausted
-- The error object is shown by a metamethod that never returns.
function h()
	error(setmetatable({}, { __tostring = function() while true do end end }))
end
objclass.register(h)
