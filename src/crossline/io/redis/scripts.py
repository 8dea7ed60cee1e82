"""The Lua scripts of the Redis sink: each is atomic, so that a kill leaves all of it or nothing."""

from __future__ import annotations

# The gravest of what is in force for an entity. Where it ends before a lesser one, the entity is noted as due then.
# ``stand`` finds it anew among all.
#
# Redis's own clock decides which alerts are in force, so that readers and writers use the same instant.
_STAND = """
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local function read(id, text)
  local each = {}
  for field in string.gmatch(text, '[^|]+') do each[#each + 1] = field end
  return {id = id, rank = tonumber(each[1]), score = tonumber(each[2]), until_ms = tonumber(each[3]),
    action = each[4], rule = each[5], version = each[6], status = each[7] or each[4], decision = each[8] or '-',
    policy = tonumber(each[9] or 0), revision = tonumber(each[10] or 0)}
end
local function written(each)
  return table.concat({each.rank, each.score, string.format('%.0f', each.until_ms), each.action, each.rule,
    each.version, each.status, each.decision, each.policy, each.revision}, '|')
end
local function graver(a, b)
  if a.rank ~= b.rank then return a.rank > b.rank end
  if a.score ~= b.score then return a.score > b.score end
  if a.until_ms ~= b.until_ms then return a.until_ms > b.until_ms end
  return a.id < b.id
end
local function tell_status(entity_key, best)
  local text = string.format('%.0f', best.until_ms)
  redis.call('DEL', entity_key)
  redis.call('HSET', entity_key, 'status', best.status, 'action', best.action, 'score', best.score, 'alert_id', best.id,
    'rule_id', best.rule, 'rule_version', best.version, 'until_ms', text)
  if best.decision ~= '-' then redis.call('HSET', entity_key, 'decision_id', best.decision) end
  redis.call('PEXPIREAT', entity_key, text)
end
local function note_due(due_key, entity, until_ms, last_ms)
  if last_ms > until_ms then
    redis.call('ZADD', due_key, string.format('%.0f', until_ms), entity)
  else
    redis.call('ZREM', due_key, entity)
  end
end
local function stand(entity_key, standing_key, due_key, entity)
  local standing = redis.call('HGETALL', standing_key)
  local best, last_ms = nil, 0
  for i = 1, #standing, 2 do
    local each = read(standing[i], standing[i + 1])
    if each.until_ms <= now_ms then
      redis.call('HDEL', standing_key, each.id)
    else
      if each.until_ms > last_ms then last_ms = each.until_ms end
      if best == nil or graver(each, best) then best = each end
    end
  end
  if best == nil then
    redis.call('DEL', entity_key)
    redis.call('ZREM', due_key, entity)
    return
  end
  tell_status(entity_key, best)
  redis.call('PEXPIREAT', standing_key, string.format('%.0f', last_ms))
  note_due(due_key, entity, best.until_ms, last_ms)
end
"""
LOOKED_THROUGH_EACH = 1_000  # alerts of an entity: what has ended among them is let go of then
# An alert once: where its key is there, nothing is done. A script is one step for everybody else, but what it did stays
# where a call in it fails (the key has another type): the key is set last, and the rest done again.
#
# KEYS: alert, stream, entity, standing, figure, due. ARGV: alert's JSON, seconds that ids are known, longest stream,
# alert id, KEY, what is done ("stands", "gone" or "none"), rank, score, action, rule, version, the alert whose standing
# it is, milliseconds that it is in force, figure's JSON or "", status, decision's id ("-": none), its policy's version,
# its revision.
#
# Where a correction changes no decision, its alert has the status of the decision that there was.
#
# A storm of alerts on one entity must not stop the server for all others: an alert is weighed against the gravest, and
# all are looked through only where that one goes, or now and then.
# A correction changes a figure only where it is that of the alert which it corrects, or of none.
WRITE_ALERT = (
    _STAND
    + """
local function tell_figure()
  local known = redis.call('GET', KEYS[5])
  local correction = ARGV[12] ~= ARGV[4]
  if correction and known and cjson.decode(known).alert_id ~= ARGV[12] then return end
  if ARGV[14] ~= '' then
    redis.call('SET', KEYS[5], ARGV[14], 'PX', ARGV[13])
  elseif correction then
    redis.call('DEL', KEYS[5])
  end
end
local function tell_standing()
  local entry
  if ARGV[6] == 'gone' then
    redis.call('HDEL', KEYS[4], ARGV[12])
  else
    local each = {rank = ARGV[7], score = ARGV[8], until_ms = now_ms + ARGV[13], action = ARGV[9], rule = ARGV[10],
      version = ARGV[11], status = ARGV[15], decision = ARGV[16], policy = ARGV[17], revision = ARGV[18]}
    local before = redis.call('HGET', KEYS[4], ARGV[12])
    if before and each.decision == '-' then
      local was = read(ARGV[12], before)
      if was.decision ~= '-' then
        each.rank, each.score, each.status = was.rank, was.score, was.status
        each.decision, each.policy, each.revision = was.decision, was.policy, was.revision
      end
    end
    entry = written(each)
    redis.call('HSET', KEYS[4], ARGV[12], entry)
  end
  local best_id = redis.call('HGET', KEYS[3], 'alert_id')
  local known = best_id and best_id ~= ARGV[12] and redis.call('HGET', KEYS[4], best_id)
  if not known or redis.call('HLEN', KEYS[4]) % EACH == 0 then
    return stand(KEYS[3], KEYS[4], KEYS[6], ARGV[5])
  end
  if not entry then return end
  local best, new = read(best_id, known), read(ARGV[12], entry)
  local last_ms = now_ms + redis.call('PTTL', KEYS[4])
  if new.until_ms > last_ms then
    last_ms = new.until_ms
    redis.call('PEXPIREAT', KEYS[4], string.format('%.0f', last_ms))
  end
  if graver(new, best) then
    best = new
    tell_status(KEYS[3], best)
  end
  note_due(KEYS[6], ARGV[5], best.until_ms, last_ms)
end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[6] ~= 'none' then tell_standing() end
tell_figure()
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'alert_id', ARGV[4], 'key', ARGV[5], 'alert', ARGV[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
""".replace("EACH", str(LOOKED_THROUGH_EACH))
)
# The entities whose gravest action has ended, and that have a lesser one. KEYS: due. ARGV: what the keys of entities
# and of standings begin with, the most that are looked at.
WRITE_DUE = (
    _STAND
    + """
for _, entity in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[3])) do
  stand(ARGV[1] .. entity, ARGV[2] .. entity, KEYS[1], entity)
end
return 1
"""
)
# A decision that was revised, for an alert that it rests on. KEYS: entity, standing, due. ARGV: KEY, the alert whose
# standing it is, rank, score, status, decision's id, its policy's version, its revision.
WRITE_REVISED = (
    _STAND
    + """
local known = redis.call('HGET', KEYS[2], ARGV[2])
if not known then return 0 end
local each = read(ARGV[2], known)
local version, revision = tonumber(ARGV[7]), tonumber(ARGV[8])
if each.policy > version or (each.policy == version and each.revision > revision) then return 0 end
each.rank, each.score, each.status, each.decision = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
each.policy, each.revision = version, revision
redis.call('HSET', KEYS[2], ARGV[2], written(each))
stand(KEYS[1], KEYS[2], KEYS[3], ARGV[1])
return 1
"""
)
# Decisions: the newest of each record stays, whichever comes last. KEYS: a decision each. ARGV: seconds, then the JSON
# of each decision. Most are the first on their record, which takes one call.
# The policy's version goes before the number of the revision: a new one decides about a record anew.
WRITE_DECISIONS = """
local seconds = ARGV[1]
for n, key in ipairs(KEYS) do
  local text = ARGV[n + 1]
  if not redis.call('SET', key, text, 'EX', seconds, 'NX') then
    local known, new = redis.call('GET', key), cjson.decode(text)
    local was, version = known and cjson.decode(known), new.policy_version
    local newer = was and (was.policy_version > version or
      (was.policy_version == version and was.revision > new.revision))
    if not newer then redis.call('SET', key, text, 'EX', seconds) end
  end
end
return 1
"""
