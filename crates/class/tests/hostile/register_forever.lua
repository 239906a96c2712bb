-- expect: exhausted
while true do objclass.register(function() end) end
