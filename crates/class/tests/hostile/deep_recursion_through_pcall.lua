-- expect: status 0
-- The innermost level fails and is caught one level up, where recursion ends.
function h() pcall(h) return 0 end
objclass.register(h)
