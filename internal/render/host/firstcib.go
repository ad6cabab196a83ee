package host

import (
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PacemakerUnit runs Pacemaker.
const PacemakerUnit = "pacemaker.service"

// FirstCIBPath is where a host of two keeps the configuration that Pacemaker
// starts with in the very first minute of its cluster.
const FirstCIBPath = "/etc/holdfast/pacemaker/first-cib.xml"

// firstCIB holds the one setting that is needed before there is a coordinator
// to take settings: without it two new hosts wait 20 s for a third that could
// be coordinator already. Everything else comes by `two-node setup`, which
// finds this value as it wants it. The oldest schema that the packages of a
// supported distribution know is enough; Pacemaker brings it up to date.
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
// must not keep Pacemaker from starting, and needs a shell since the answer
// is only known on the host.
const pacemakerDropin = `[Service]
ExecStartPre=-/bin/sh -c 'test -e /var/lib/pacemaker/cib/cib.xml || install -o hacluster -g haclient -m 0600 ` + FirstCIBPath + ` /var/lib/pacemaker/cib/cib.xml'
`

func firstCIBFile() state.File { return state.File{Path: FirstCIBPath, Data: []byte(firstCIB)} }

func pacemakerUnit() ignition.Unit {
	return ignition.Unit{Name: PacemakerUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: pacemakerDropin}}}
}
