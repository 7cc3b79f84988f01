local prefix, sizes = ARGV[14] .. 'index/', 2097152
local function kib(n) return math.min(math.ceil((n * 1.25 + 768) / 1024), sizes - 1) end
local function isNetwork(owner) return string.sub(owner, 1, 8) == 'network ' end
local function count(owner, n)
	if n == 0 then return 0 end
	if tonumber(redis.call('ZINCRBY', prefix .. 'owners', n, owner)) <= 0 then redis.call('ZREM', prefix .. 'owners', owner) end
	if isNetwork(owner) then redis.call('INCRBY', prefix .. 'networks', n) end
	return n
end
local function held(owner, key)
	local score = redis.call('ZSCORE', prefix .. 'kept/' .. owner, key) or redis.call('ZSCORE', prefix .. 'evictable/' .. owner, key)
	return score and tonumber(score) % sizes or 0
end
local function forget(owner, key)
	local size = held(owner, key)
	redis.call('ZREM', prefix .. 'kept/' .. owner, key)
	redis.call('ZREM', prefix .. 'evictable/' .. owner, key)
	return count(owner, -size)
end
local function remember(owner, key, size, ttl, evictable)
	local grown = forget(owner, key)
	local clock = redis.call('TIME')
	local score = math.ceil(clock[1] + ttl / 1000) * sizes + size
	local set = prefix .. (evictable and 'evictable/' or 'kept/') .. owner
	redis.call('ZADD', set, string.format('%.0f', score), key)
	if redis.call('TTL', set) < ttl / 1000 then redis.call('EXPIRE', set, math.ceil(ttl / 1000) + 60) end
	return grown + count(owner, size)
end
local function evict(owner, but)
	for _, key in ipairs(redis.call('ZRANGE', prefix .. 'evictable/' .. owner, 0, 1)) do
		if key ~= but then
			local full = ARGV[14] .. key
			local tombstone, left = redis.call('HGET', full, 't'), redis.call('PTTL', full)
			local freed = -forget(owner, key)
			if tombstone and left > 0 then
				redis.call('HSET', full, 'v', tombstone, 'r', ARGV[2] .. key)
				redis.call('HDEL', full, 't')
				freed = freed - remember(owner, key, 1, left, false)
			else
				redis.call('UNLINK', full)
			end
			return freed
		end
	end
	return nil
end
local function makeRoom(owner, growth, but)
	local clock, freed = redis.call('TIME'), 0
	for _, set in ipairs({'kept/', 'evictable/'}) do
		for _, key in ipairs(redis.call('ZRANGEBYSCORE', prefix .. set .. owner, '-inf', string.format('%.0f', clock[1] * sizes - 1), 'LIMIT', 0, 4)) do
			freed = freed - forget(owner, key)
		end
	end
	if growth <= 0 then return false, freed end
	local used, limit, network = tonumber(ARGV[12]), tonumber(ARGV[13]), isNetwork(owner)
	for _ = 1, 64 do
		local free = limit - used + freed - growth
		if free >= limit / 4 then return false, freed end
		local own = tonumber(redis.call('ZSCORE', prefix .. 'owners', owner) or '0')
		local networks = tonumber(redis.call('GET', prefix .. 'networks') or '0')
		local over = own > 0 and own + growth > free / 8
		local half = network and networks + growth > limit / 2 and free < limit / 8
		if not over and not half and free >= 0 then return false, freed end
		local more
		for _, other in ipairs(redis.call('ZREVRANGE', prefix .. 'owners', 0, 15)) do
			local most = tonumber(redis.call('ZSCORE', prefix .. 'owners', other))
			if (networks <= limit / 2 or isNetwork(other)) and (most >= own or not network and networks > limit / 2) then
				more = evict(other, but)
				if more then break end
			end
		end
		if not more then return true, freed end
		freed = freed + more
	end
	return true, freed
end
