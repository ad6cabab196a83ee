#!/usr/bin/env bash
# Makes the states below cases/ that no lab was needed for: Pacemaker's own
# crm_simulate changes the cluster of decide/twonode's golden CIB, and its own
# crm_mon says how that looks. What a CIB does not hold, the history of fences,
# is put into the output by hand. Needs crm_mon, crm_simulate, crm_attribute
# and crm_resource (Debian: pacemaker-cli-utils); no cluster.
set -euo pipefail
cd "$(dirname "$0")"
base=../../../internal/decide/twonode/testdata
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CIB_file=$work/cib.xml TZ=UTC
day='2026-11-20 12:00:00'

sim() { crm_simulate -x "$CIB_file" -t "$day" -Q "$@" -O "$work/new.xml" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }; mv "$work/new.xml" "$CIB_file"; }
property() { crm_attribute -t crm_config -n "$1" -v "$2" 2>/dev/null; }
meta() { crm_resource -r "$1" -m -p "$2" -v "$3" >/dev/null 2>&1; }
edit() { sed -i "$1" "$CIB_file"; }
fresh() { cp "$work/live.xml" "$CIB_file"; }
events=
# shot NAME: what crm_mon says now, as seen on cp-1
shot() {
  mkdir -p "cases/$1/cp-1"
  crm_mon -1 -r --output-as=xml |
    sed -E -e 's/last-rc-change="2026[^"]*"/last-rc-change="2026-11-20 12:00:00Z"/' -e 's/"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4}"/"Fri Nov 20 12:00:00 2026"/g' -e "s|  <status code=\"0\"|${events:+  <fence_history>$events</fence_history>\n}&|" \
      >"cases/$1/cp-1/crm_mon.xml"
  cp "$base/corosync.conf" "cases/$1/cp-1/corosync.conf"
  events=
  fresh
}
fence() { # fence STATUS ACTION TARGET BY COMPLETED [WORDS]
  events+="<fence_event status=\"$1\" action=\"$2\" target=\"$3\" client=\"pacemaker-controld.812\" origin=\"$4\"${5:+ delegate=\"$4\" completed=\"$5\"}${6:+ exit-reason=\"$6\"}/>"
}

sed 's/validate-with="[^"]*"/validate-with="none"/' "$base/ours.xml" >"$CIB_file"
cp "$CIB_file" "$work/live.xml"
shot both-never-seen
sim -S -u cp-1 -u cp-2
cp "$CIB_file" "$work/live.xml"
shot healthy

# a host is lost
sim -f cp-2; fence pending reboot cp-2 cp-1 ''; shot lost-being-fenced
sim -S -f cp-2; fence success reboot cp-2 cp-1 '2026-11-20 12:00:03.500000Z'; shot lost-fenced
sim -f cp-2; fence failed reboot cp-2 cp-1 '2026-11-20 12:00:03.500000Z' 'no answer of the BMC within 40s'; shot lost-fence-failed
sim -f cp-2; property stonith-enabled false; shot lost-without-fencing
sim -S -f cp-2; fence success reboot cp-2 cp-1 '2026-11-20 12:00:03.500000Z'; fence failed reboot cp-2 cp-1 '2026-11-20 11:59:01.000000Z' 'refused'; shot lost-fenced-at-the-second-try
sim -f cp-1; shot lost-first
edit '/<node_state id="2"/s/join="member"/join="pending"/'; shot joining
sim -d cp-2; shot shut-down-in-order
fence success reboot cp-2 cp-1 '2026-11-20 11:00:03Z'; shot back-after-a-fence

# what persons do
crm_attribute -t nodes -N cp-2 -n standby -v on; sim -S; shot standby
crm_attribute -t nodes -N cp-1 -n standby -v on; crm_attribute -t nodes -N cp-2 -n standby -v on; sim -S; shot standby-both
property maintenance-mode true; shot maintenance-mode
property maintenance-mode true; sim -f cp-2; shot maintenance-mode-and-lost
crm_attribute -t nodes -N cp-1 -n maintenance -v true; shot maintenance-node
property stonith-enabled false; shot fencing-disabled
property no-quorum-policy ignore; shot no-quorum-policy-ignore
property stop-all-resources true; sim -S; shot stop-all-resources
edit 's/have-quorum="1"/have-quorum="0"/'; shot no-quorum
meta etcd is-managed false; shot etcd-unmanaged
meta etcd-clone target-role Stopped; sim -S; shot etcd-disabled
meta kubelet target-role stopped; sim -S; shot kubelet-disabled-in-small-letters
meta cp-2_redfish target-role Stopped; sim -S; shot device-disabled
meta cp-2_redfish is-managed false; shot device-unmanaged
edit '/<clone id="etcd-clone"/,/<\/clone>/d;/etcd-clone/d'; shot etcd-orphaned
edit '/<primitive id="cp-1_redfish"/,/<\/primitive>/d'; edit '/rsc="cp-1_redfish"/d;/<lrm_resource id="cp-1_redfish"/,/<\/lrm_resource>/d'; shot one-device-gone
for n in cp-1 cp-2; do edit "/<primitive id=\"${n}_redfish\"/,/<\/primitive>/d;/rsc=\"${n}_redfish\"/d;/<lrm_resource id=\"${n}_redfish\"/,/<\/lrm_resource>/d"; done; shot no-devices
edit '/rsc="cp-2_redfish"/d'; edit 's|<rsc_order |<rsc_location id="other-way" rsc="cp-2_redfish" node="cp-1" score="-INFINITY"/>&|'; sim -S; shot device-on-its-own-target

# what fails
sim -i kubelet_monitor_5000@cp-2=7; shot kubelet-found-stopped
sim -i kubelet_monitor_5000@cp-2=1; sim -S -F kubelet_start_0@cp-2=1; shot kubelet-cannot-start
sim -i etcd_monitor_3000@cp-1=1; shot etcd-failed
sim -i etcd_monitor_3000@cp-1=7; sim -S; shot etcd-failed-and-restarted
edit '/id="etcd-monitor-interval-3s"/s/on-fail="restart"/on-fail="block"/'; sim -i etcd_monitor_3000@cp-2=1; shot etcd-blocked
edit '/id="kubelet-monitor-interval-5s"/s/on-fail="restart"/on-fail="standby"/'; sim -i kubelet_monitor_5000@cp-2=1; shot standby-by-a-failure
sim -i cp-2_redfish_monitor_60000@cp-1=1; shot device-monitor-failed
sim -i cp-2_redfish_monitor_60000@cp-1=1; sim -S -F cp-2_redfish_start_0@cp-1=1; shot device-cannot-start
sim -i cp-1_redfish_monitor_60000@cp-2=1 -i cp-2_redfish_monitor_60000@cp-1=1; sim -S -F cp-1_redfish_start_0@cp-2=1 -F cp-2_redfish_start_0@cp-1=1; shot both-devices-cannot-start
sim -i etcd_stop_0@cp-2=1; shot etcd-cannot-be-stopped
sim -i kubelet_monitor_0@cp-2=7 -i etcd_monitor_0@cp-2=7; shot probes-after-a-boot

# odd ones
edit '/<node id="2"/d;/<node_state id="2"/,/<\/node_state>/d'; shot one-node-in-pacemaker
edit 's|</nodes>|<node id="3" uname="cp-3"/>&|'; shot three-nodes
edit 's|</nodes>|<node id="3" uname="cp-3"/><node id="4" uname="cp-4"/><node id="5" uname="cp-5"/><node id="6" uname="cp-6"/>&|'; shot six-nodes
edit '/<node id=/d;/<node_state id=/,/<\/node_state>/d'; shot no-nodes
edit 's|</resources>|<primitive id="far" class="ocf" provider="pacemaker" type="remote"><operations><op id="far-m" name="monitor" interval="30s"/></operations></primitive>&|'; sim -S; shot remote-node
edit 's|</resources>|<group id="g"><primitive id="first" class="ocf" provider="heartbeat" type="Dummy"/><primitive id="second" class="systemd" type="kubelet-x"/></group>&|'; sim -S; shot group-and-another-kubelet
edit 's|</resources>|<bundle id="box"><podman image="web" replicas="2"/><network control-port="3121"/><primitive id="etcd-inside" class="ocf" provider="heartbeat" type="podman-etcd"/></bundle>&|'; sim -S; shot bundle
more=; for i in 1 2 3 4 5 6 7 8; do more+="<primitive id=\"cp-2_redfish$i\" class=\"stonith\" type=\"fence_holdfast\"/>"; done
edit "s|</resources>|$more&|"; sim -S; shot nine-devices
edit 's|</resources>|<primitive id="cp-2_ipmi" class="stonith" type="fence_ipmilan"/><primitive id="cp-2_pdu_left" class="stonith" type="fence_apc"/><primitive id="watch" class="stonith" type="fence_sbd"/>\&|;s|\\&||'; edit 's|</resources>.*|</resources>|'; shot devices-of-other-kinds
edit '/<clone_dummy/d;s|<nvpair id="kubelet-clone-meta_attributes-interleave"[^>]*>|&<nvpair id="kgu" name="globally-unique" value="true"/>|'; sim -S; shot unique-clone
sim -i cp-2_redfish_monitor_60000@cp-2=0; shot device-on-two-nodes
edit 's/uname="cp-2"/uname="CP_2"/g;s/node="cp-2"/node="CP_2"/g'; shot a-name-that-is-none

# other versions, and no cluster
three() {
  sed -e 's/api-version="[^"]*"/api-version="2.39"/' -e 's/ managed="/ maintenance="false"&/' -e 's/<stack type="corosync"/& pacemakerd-state="running"/' \
    -e 's/"Fri Nov 20 \([0-9:]*\) 2026"/"2026-11-20 \1Z"/g' -e 's/ cached="true"//' -e 's/version="2.1.5-a3f44794f94"/version="3.0.1-5.el10"/' "cases/$1/cp-1/crm_mon.xml" \
    >"$work/three.xml"
  mkdir -p "cases/version-3-$1/cp-1"
  cp "$work/three.xml" "cases/version-3-$1/cp-1/crm_mon.xml"
  cp "$base/corosync.conf" "cases/version-3-$1/cp-1/"
}
three healthy; three etcd-failed; three lost-fence-failed
sed -i 's/id="etcd" resource_agent/& /;s/\(id="etcd" .*\)maintenance="false"/\1maintenance="true"/;s/resource_agent =/resource_agent=/' cases/version-3-healthy/cp-1/crm_mon.xml
mv cases/version-3-healthy cases/version-3-etcd-in-maintenance
mkdir -p cases/version-2.0-healthy/cp-1 cases/not-running/cp-1
sed -e '1s/.*/<?xml version="1.0"?>\n<crm_mon version="2.0.5">/' -e 's|</pacemaker-result>|</crm_mon>|' -e '/<status code/d' -e 's/ feature_set="[^"]*"//;s/ health="green"//' cases/healthy/cp-1/crm_mon.xml >cases/version-2.0-healthy/cp-1/crm_mon.xml
printf '<pacemaker-result api-version="2.25" request="crm_mon -1 -r --output-as=xml">\n  <status code="102" message="Not connected">\n    <errors>\n      <error>crm_mon: Connection to cluster failed: Connection refused</error>\n    </errors>\n  </status>\n</pacemaker-result>\n' >cases/not-running/cp-1/crm_mon.xml
for c in version-2.0-healthy not-running; do cp "$base/corosync.conf" "cases/$c/cp-1/"; done

# what the agent of etcd says in some of them
etcd() { # etcd CASE CONTACT STATE MEMBERS
  printf '{"wish": "started", "snapshot": {"host": "cp-1", "peer": "cp-2", "now": "2026-11-20T12:00:00Z", "nonce": "", "boot": "b", "uptime": 1, "record": {"state": "%s", "seq": 9, "cluster": "c", "member": "a", "written": "2026-11-20T11:00:00Z"}, "data": null, "local": {"running": true, "leader": "a", "members": [%s], "standIn": "0"}, "pacemaker": {"inert": false, "contact": %s, "ring": 7}, "statement": null, "proofs": {"power": null, "fenced": null, "human": null}}, "verdict": {"action": "idle", "rule": "r", "reason": ""}, "at": "2026-11-20T12:00:00Z", "since": 0, "outdated": null}\n' "$3" "$4" "$2" >"cases/$1/cp-1/etcd.json"
}
one='{"id": "a", "name": "cp-1"}' two='{"id": "b", "name": "cp-2"}'
etcd healthy true pair "$one, $two"
etcd lost-being-fenced false pair "$one, $two"
etcd lost-fenced false sole "$one"
etcd joining true sole "$one"
etcd back-after-a-fence true sole "$one, {\"id\": \"d\", \"name\": \"cp-2\", \"learner\": true}"
etcd probes-after-a-boot true sole "$one, $two"
