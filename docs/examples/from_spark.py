from p2prdf.publish import session

spark = session()
frame = spark.createDataFrame([("<urn:eve>", "<urn:goals>", '"7"')], "s string, p string, o string")
frame.write.format("p2prdf").mode("append").option("peers", "127.0.0.1:7401").save()
