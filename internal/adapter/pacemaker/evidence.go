package pacemaker

// Question is something that the tools of Corosync and Pacemaker print about
// the cluster; none changes anything.
type Question struct {
	// File is a name for what is printed, What says what it is.
	File, What string
	Line       []string
}

// Evidence are the questions that whoever looks for a fault asks a host.
func Evidence() []Question {
	return []Question{
		{"crm_mon.xml", "Pacemaker's status", reportLine},
		{"cib.xml", "Pacemaker's configuration, without passwords", []string{"cibadmin", "--query"}},
		{"status.txt", "Pacemaker's status for persons", []string{"pcs", "status", "--full"}},
		{"fences.txt", "Pacemaker's history of fences", []string{"stonith_admin", "--history=*", "--verbose"}},
		{"quorum.txt", "Corosync's membership", []string{"corosync-quorumtool", "-s"}},
		{"links.txt", "Corosync's links", []string{"corosync-cfgtool", "-s"}},
		{"corosync-map.txt", "what Corosync counts", []string{"corosync-cmapctl", "-m", "stats"}},
	}
}
