"""All that leans on private parts of Spark 4.1 and py4j, a door each; to be looked at with each release of Spark.

====================  ==========================================  =====================================================
door                  leans on                                    because
====================  ==========================================  =====================================================
``gateway``           ``SparkContext._gateway``                   PySpark cannot be handed a Java that runs already
``door``              the server socket of py4j's gateway         it takes connections from any account of the machine
``calls``             ``DataStreamWriter._jwrite``, Janino        ``foreachBatch`` opens a port that asks nobody
``homes``             ``DataFrame._jdf``, ``CoalescedRDD``        DataFrames cannot say where a partition is to run
``pace``              ``StreamingQuery._jsq``                     limits of a source are fixed when a query starts
``leftovers``         selectors and threads of Python sources     queries that ended leave them behind
====================  ==========================================  =====================================================

``placing`` is what ``homes`` asks for, and knows no Spark. Not here: Spark's daemon of Python workers is replaced by a
setting (``runtime/workers/daemon.py``), which Spark documents.
"""
