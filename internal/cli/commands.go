package cli

import "github.com/spf13/cobra"

// commands lists the verbs of holdfast, with one constructor per file.
func commands(streams Streams) []*cobra.Command {
	return []*cobra.Command{
		newRelease(streams),
		newCreate(streams),
		newRestore(streams),
		newJoinSecret(streams),
		newKubeconfig(streams),
		newWaitFor(streams),
		newStatus(streams),
		newDashboard(streams),
		newExplain(streams),
		newIncidents(streams),
		newSupportBundle(streams),
		newDoctor(streams),
		newQuorum(streams),
		newFencing(streams),
		newVIP(streams),
		newConfig(streams),
		newHost(streams),
		newTopology(streams),
		newSite(streams),
		newUpgrade(streams),
		newEtcd(streams),
		newBackup(streams),
		newEncryption(streams),
		newCA(streams),
		newCertificates(streams),
		newLab(),
		newVersion(streams),
	}
}
