-- expect: fault
string.rep = function() return 'owned' end
function h() end
objclass.register(h)
