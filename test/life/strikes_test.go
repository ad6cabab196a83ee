package life_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/lab"
)

// cutOff cuts a control plane off from all other hosts; clients reach both sides.
func (tr *trial) cutOff(victim string) func() {
	tr.Helper()
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultPartition})
	return func() { tr.Mend(victim, lab.FaultPartition) }
}

// fence has the other control plane fence this one, as an administrator would. Where
// Pacemaker has ended on it already, it loses its power all the same.
func (tr *trial) fence(victim string) func() {
	tr.Helper()
	at := tr.Now()
	tr.On(tr.peer(victim), sbin+"timeout 180 pcs stonith fence "+victim)
	tr.BootedAgain(victim, at)
	return nil
}

// fillEtcdsDisk leaves no byte on the disk of etcd, which is one of its own, of two GiB.
func (tr *trial) fillEtcdsDisk(victim string) func() {
	tr.Helper()
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultDiskFull})
	return func() { tr.Mend(victim, lab.FaultDiskFull) }
}

// The disk of the folder in which a host keeps its journal, and what a return needs. The
// host's own is that of this machine, which no test may fill.
const (
	smallDiskSize = "16m"
	smallDiskKeep = "/run/life-upgrade"
	filler        = upgrade.Folder + "/life-filler"
)

// smallDisk has the upgrade of a host work on a disk of its own, which is small. The agent
// starts anew, since it sees the disks of its start. The test's end takes the disk away.
func (tr *trial) smallDisk(host string) {
	tr.Helper()
	const f = upgrade.Folder
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		script := "rm -f " + filler + "; mountpoint -q " + f + " || exit 0; rm -rf " + smallDiskKeep + " && cp -a " + f + " " + smallDiskKeep +
			" && umount -l " + f + " && cp -a " + smallDiskKeep + "/. " + f + "/ && rm -rf " + smallDiskKeep + " && systemctl restart holdfast-agent"
		if _, err := tr.Sh(ctx, host, script); err != nil {
			tr.Errorf("take the small disk away: %v", err)
		}
	})
	tr.On(host, "mkdir -p "+f+" && mode=$(stat -c %a "+f+") && rm -rf "+smallDiskKeep+" && cp -a "+f+" "+smallDiskKeep+" && mount -t tmpfs -o size="+smallDiskSize+",mode=$mode life "+f+
		" && cp -a "+smallDiskKeep+"/. "+f+"/ && rm -rf "+smallDiskKeep+" && systemctl restart holdfast-agent")
}

// fillSmallDisk leaves no byte there.
func (tr *trial) fillSmallDisk(victim string) func() {
	tr.Helper()
	tr.Now()
	const more = filler + "-2"
	tr.On(victim, "mountpoint -q "+upgrade.Folder+" || exit 1; dd if=/dev/zero of="+filler+" bs=4k 2>/dev/null; "+
		"dd if=/dev/zero of="+more+" bs=4k count=1 2>/dev/null && { echo there is room; exit 1; }; rm -f "+more)
	return func() { tr.On(victim, "rm -f "+filler) }
}

// killOperator kills the operator wherever it runs. On a host that is emptied it may be just
// about to start.
func (tr *trial) killOperator(string) func() {
	tr.Helper()
	tr.kill("holdfast-operator", tr.ControlPlanes()...)
	return nil
}

// killAgent kills the agent of a host. It may be just about to start.
func (tr *trial) killAgent(victim string) func() {
	tr.Helper()
	tr.kill("holdfast-agent run", victim)
	return nil
}

// kill kills the processes of a name on hosts, once one is there.
func (tr *trial) kill(process string, hosts ...string) {
	tr.Helper()
	tr.Now()
	tr.Eventually(2*time.Minute, process+" is killed", func() error {
		var errs []error
		for _, h := range hosts {
			err := tr.Power.Inject(tr.Context(), lab.Fault{Host: h, Kind: lab.FaultProcessKill, Process: process})
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", h, err))
		}
		return errors.Join(errs...)
	})
}
