package host

import (
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PacemakerUnit runs Pacemaker.
const PacemakerUnit = "pacemaker.service"

// FirstCIBPath is the file with the configuration with which Pacemaker starts
// in the very first minute of its cluster.
const FirstCIBPath = "/etc/holdfast/pacemaker/first-cib.xml"

// firstCIB contains the one setting that is needed before a coordinator exists
// that could accept settings: without it two new hosts wait 20 s for a third
// one that could already be coordinator. `two-node setup` adds everything else,
// and finds this value as it wants it. The oldest schema in the packages of a
// supported distribution is enough; Pacemaker upgrades it.
const firstCIB = `<cib admin_epoch="0" epoch="1" num_updates="0" validate-with="pacemaker-3.7">
  <configuration>
    <crm_config>
      <cluster_property_set id="cib-bootstrap-options">
        <nvpair id="cib-bootstrap-options-dc-deadtime" name="dc-deadtime" value="5s"/>
      </cluster_property_set>
    </crm_config>
    <nodes/>
    <resources/>
    <constraints/>
  </configuration>
  <status/>
</cib>
`

// pacemakerDropin gives Pacemaker its first configuration if it has none. It
// must not keep Pacemaker from starting. It needs a shell, because only the
// host knows whether there is one.
//
// It also has systemd start Pacemaker again after exit 100. A host that boots before Pacemaker
// is told that its fence succeeded learns that it "was allegedly just fenced": Pacemaker
// takes Corosync down with itself and stays down, so the pair was no pair until a person came. By
// then the host has booted, and who may lead is decided by etcd's records. If it fails five
// times within 25 s, systemd leaves it, and status says so.
//
// On a busy processor it comes as early as the etcd keeper, whose word to the peer it carries: where
// processors were short it took over 4 s for one, and a host stopped before its peer knew that it
// leaves (lab, 2026-12-01).
const pacemakerDropin = `[Service]
CPUWeight=1000
RestartForceExitStatus=100
ExecStartPre=-/bin/sh -c 'test -e /var/lib/pacemaker/cib/cib.xml || install -o hacluster -g haclient -m 0600 ` + FirstCIBPath + ` /var/lib/pacemaker/cib/cib.xml'
`

func firstCIBFile() state.File { return state.File{Path: FirstCIBPath, Data: []byte(firstCIB)} }

func pacemakerUnit() ignition.Unit {
	return ignition.Unit{Name: PacemakerUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: pacemakerDropin}}}
}
