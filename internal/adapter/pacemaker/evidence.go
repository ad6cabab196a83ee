package pacemaker

// Question is a command of Corosync or Pacemaker that prints something about
// the cluster and changes nothing.
type Question struct {
	// File is a file name for the output, and What describes the output.
	File, What string
	Line       []string
}

// Evidence returns the questions to ask a host when somebody looks for a fault.
func Evidence() []Question {
	return []Question{
		{"crm_mon.xml", "Pacemaker's status", reportLine},
		{"cib.xml", "Pacemaker's configuration, without passwords", []string{"cibadmin", "--query"}},
		{"status.txt", "Pacemaker's status as text", []string{"pcs", "status", "--full"}},
		{"fences.txt", "Pacemaker's history of fences", []string{"stonith_admin", "--history=*", "--verbose"}},
		{"quorum.txt", "Corosync's membership", []string{"corosync-quorumtool", "-s"}},
		{"links.txt", "Corosync's links", []string{"corosync-cfgtool", "-s"}},
		{"corosync-map.txt", "Corosync's counters", []string{"corosync-cmapctl", "-m", "stats"}},
	}
}
