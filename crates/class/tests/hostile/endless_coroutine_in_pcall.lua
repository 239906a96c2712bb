-- expect: exhausted
function h()
	while true do
		pcall(coroutine.wrap(function() while true do pcall(coroutine.yield) end end))
	end
end
objclass.register(h)
