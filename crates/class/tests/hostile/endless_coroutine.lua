-- expect: exhausted
function h()
	local spin = coroutine.wrap(function() while true do end end)
	spin()
end
objclass.register(h)
