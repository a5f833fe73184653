"""The testing kit: a cluster, its workload, faults and noise, told in the formats real tools print."""
